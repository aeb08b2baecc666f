"""What draws the site's pictures, from models and numbers; pages call it, so that they stay short."""
