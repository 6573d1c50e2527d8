"""The OpenAPI document: what handlers cannot say of themselves."""
