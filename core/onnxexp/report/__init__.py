"""What people read: errors, summaries, printed graphs."""
