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
# Of an account that an operator looks at: no secret has a page there.
LOOKING_MENU = {path: words for path, words in MENU.items() if path != "/keys"}


def menu_of(*, operator: bool, looks: bool) -> dict[str, str]:
    """`looks`: at another account than the viewer's own."""
    return LOOKING_MENU if looks else OPERATORS_MENU if operator else MENU
