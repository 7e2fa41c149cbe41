"""Where cells are run: in this process, or by Ray. Imports nothing (see `ray.trial`)."""
