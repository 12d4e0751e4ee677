"""What every room uses: instants, argument checks, notices, atomic files, forks."""
