"""What a URL is: which addresses it may lead to, whose limits it counts for, by which way out, until when. PURE."""
