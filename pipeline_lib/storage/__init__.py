"""The disk: the only modules that write files which must survive a crash."""
