        $slug_js: {
          type: "raster",
          tiles: [$tiles_maplibre_js],
          tileSize: 256,
          minzoom: $min_zoom,
          maxzoom: $max_zoom,
          attribution: $attribution_js,
        },
