"""The SDKs of QStash, as registries have them, against a real Postdate."""
