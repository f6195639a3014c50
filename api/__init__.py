"""Floor 3: HTTP and the command line. It knows the services below, and nothing under them."""
