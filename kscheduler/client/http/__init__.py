"""HTTP/1.1 on connections of our own, and aiohttp for proxies."""
