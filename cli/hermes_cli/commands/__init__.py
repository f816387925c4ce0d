"""What the commands do. `app` imports one of these when its command is given, and no other."""
