"""What QStash calls things, and what a schedule carries that was made as its message. Pure."""
