"""What hubs and clouds call: verifications and pushes."""
