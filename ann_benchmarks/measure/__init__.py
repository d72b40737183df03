"""One job, from the built index to stored points; workloads that write."""
