"""A stored set of studies: what each gave, to the last digit, before the code was changed."""
