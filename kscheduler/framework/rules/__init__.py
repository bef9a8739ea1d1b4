"""Rules that several plugins share: tolerations, volumes that CSI has taken over, the arithmetic of points, ties."""
