"""Static maps over HTTP: serves, defers, or says what is wrong with the parameters."""

from django.http import HttpRequest, HttpResponse

from resources import outages
from resources.tiles import layers
from retry import methods, responses, serving, work

from .finding import find_painted
from .picture import Picture, PictureError


@methods.read_only
@outages.told
def static_map(request: HttpRequest) -> HttpResponse:
    """`/staticmap?layers=A,B&center=LAT,LON&zoom=Z&size=WxH&format=png|webp`"""
    try:
        picture = Picture.read(dict(request.GET.lists()))
        found = [find_painted(slug) for slug in picture.layers]
    except PictureError as error:
        return responses.problem(400, str(error), cache_status="Tarry; fwd=bypass")
    for slug, layer in zip(picture.layers, found, strict=True):
        if layer is None or not layer.has_zoom(picture.zoom):
            return responses.not_found(f"There is no layer “{slug}” at zoom {picture.zoom}.")
    version = layers.joint_version(layer for layer in found if layer)
    return serving.serve_or_defer(request, picture.content_key, paint_work(picture, version), version=version)


def paint_work(picture: Picture, version: int) -> work.Work:
    """The work of painting a picture from the present data of its layers."""
    place = (picture.zoom, picture.x, picture.y, picture.width, picture.height)
    return work.Work(
        key=f"{picture.content_key}:{version}",
        kind=f"staticmap:{picture.painted.bit_length()}",  # pictures up to twice as large take about as long
        lane="paint.now",
        refresh_lane="paint.refresh",
        task="resources.paint_static_map",
        arguments=(",".join(picture.layers), *place, picture.format),
    )
