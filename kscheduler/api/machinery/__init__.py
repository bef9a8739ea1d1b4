"""What is known of the served kinds without any object: names, paths, errors, field rules, selectors, table cells."""
