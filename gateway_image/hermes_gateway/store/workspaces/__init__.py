"""Files of sessions whose workspace is of kind Archive: the database says what there is, a shelf holds the bytes."""
