"""Pages besides health and metrics: z-pages, resources by pod, and what helps to find a fault."""
