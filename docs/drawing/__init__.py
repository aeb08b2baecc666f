"""What draws the site's pictures, from models and numbers, so that pages stay short."""
