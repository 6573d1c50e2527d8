"""The pages of the menu, by their path below the root."""

MENU = {
    "": "Overview",
    "/requests": "Requests",
    "/recurring": "Recurring",
    "/lanes": "Lanes",
    "/keys": "API keys",
    "/credits": "Credits",
}
OPERATORS_MENU = MENU | {"/system": "System"}
