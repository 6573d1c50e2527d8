"""The addresses of a target: looked up, judged, and tried in turn."""
