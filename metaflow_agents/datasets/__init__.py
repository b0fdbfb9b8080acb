"""Data sets from journals: what methods that train a model would train on, in the chat format of fine-tuning."""
