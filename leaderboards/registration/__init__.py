"""Announcements before seeds are drawn: tickets, their log, and who signs for a board."""
