"""Where keys and values are while no row reads them: packed, in host memory, in files, at another process."""
