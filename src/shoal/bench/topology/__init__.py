"""A shared pull queue against push routers, on real processes."""
