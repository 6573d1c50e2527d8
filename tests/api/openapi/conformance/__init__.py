"""The API against its own OpenAPI document: how schemathesis is to ask."""
