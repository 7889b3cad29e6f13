"""Rules for URLs: learnt from what is stored, decided by admins, and the new keys that rows get by them."""
