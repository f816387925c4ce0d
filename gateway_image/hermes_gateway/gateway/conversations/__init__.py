"""What people do with whole conversations, in chats and over the API alike."""
