"""The disk: the only modules that change files which must survive a crash."""
