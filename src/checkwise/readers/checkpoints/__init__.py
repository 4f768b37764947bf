"""Where the checkpoint of a logged step is: by the log, by a pattern, by the trainer's names."""
