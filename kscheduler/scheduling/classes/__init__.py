"""What is kept between cycles: pods that plugins judge alike share what was worked out for the first of them."""
