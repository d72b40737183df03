"""Load by many clients: what they ask and when, how long they warm up, and what their answers come to."""
