"""The façade every front end uses: check, profile, optimize, search, doctor. Plain data in and out."""
