"""The documented API served from an archive or the sample."""
