# TileHarvest in a container. Put maps.toml into a folder and run:
#   docker build --tag tileharvest .
#   docker run --rm --volume ./data:/data tileharvest crawl overviewer -a map=NAME
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
WORKDIR /build
# Dependencies first: this layer stays as it is while only the program changes.
COPY requirements.txt .
RUN pip install --no-cache-dir --requirement requirements.txt
COPY pyproject.toml .
COPY tileharvest tileharvest
RUN pip install --no-cache-dir --no-deps .

FROM python:${PYTHON}-slim
# A fixed number, so that the owner of a mounted /data can be set to it from outside.
RUN useradd --uid 1000 --create-home --shell /usr/sbin/nologin tileharvest \
    && install --directory --owner=tileharvest --group=tileharvest /data
COPY --from=build /venv /venv
COPY scrapy.cfg /project/
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TILEHARVEST_DATA=/data \
    TILEHARVEST_MAPS=/data/maps.toml
USER tileharvest
WORKDIR /project
VOLUME /data
# A harvest that cannot write loses nothing, but it gets nowhere: say so from outside.
HEALTHCHECK --interval=1m --timeout=5s CMD test -w "$TILEHARVEST_DATA"
# Scrapy stops tidily on the first SIGTERM: it finishes what is under way.
STOPSIGNAL SIGTERM
ENTRYPOINT ["scrapy"]
CMD ["list"]
