"""What has been spent, what may be, and what a charge would cost."""
