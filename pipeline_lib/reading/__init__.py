"""What reading needs and torch does not: windows over mapped files, orders, published folders."""
