"""Static maps: several layers in one picture, painted on demand. The example of docs/add-your-own.md."""
