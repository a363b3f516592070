"""The other methods, one file each, with the tuned version beside the plain one."""
