"""Requests and responses as they are on the wire: the single table of fields that are honoured (docs/api.md)."""
