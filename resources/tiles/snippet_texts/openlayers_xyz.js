  const dense = $is_dense_js;
  const source = new ol.source.XYZ({
    url: dense ? $tiles_twice_js : $tiles_js,
    tilePixelRatio: dense ? 2 : 1,
    minZoom: $min_zoom,
    maxZoom: $max_zoom,
    attributions: $attribution_js,
    crossOrigin: "anonymous",
  });
