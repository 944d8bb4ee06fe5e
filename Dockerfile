# TileHarvest in a container: worker, scrapyd and viewer, whichever its command names; see docs/containers.md.
#   docker build --tag tileharvest .        # for this computer's platform; both: --platform linux/amd64,linux/arm64
#   docker run --init -p 127.0.0.1:8000:8000 -v tileharvest:/data tileharvest run --serve
ARG PYTHON=3.13

FROM python:${PYTHON}-slim-trixie AS build
# For packages that have no wheel for the platform: chompjs has none for arm64. Nothing of it is in the last stage.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
# Dependencies first: this layer stays as it is while only the program changes. The constraints name what these
# depend on, too, so that the same commit gives the same image.
COPY requirements.txt ./
COPY container/requirements.txt container/constraints.txt container/
RUN pip install --no-cache-dir --no-compile --constraint container/constraints.txt \
        --requirement requirements.txt --requirement container/requirements.txt
COPY pyproject.toml ./
COPY tileharvest tileharvest
RUN pip install --no-cache-dir --no-compile --no-deps --no-build-isolation . \
    # Nothing is installed any more after this.
    && python -m pip uninstall --yes pip \
    # Compiled here, as the program's user may write nothing; and never compared with the sources again, whose
    # times would make each image another one.
    && python -m compileall -q --invalidation-mode unchecked-hash /venv/lib

FROM python:${PYTHON}-slim-trixie
LABEL org.opencontainers.image.title="TileHarvest" \
      org.opencontainers.image.description="A time machine for web maps of Minecraft worlds" \
      org.opencontainers.image.version="0.1.0"
# Maps that are published through git are harvested and imported by the git program. Its version is that of the Debian
# release, with its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*
# A fixed number, so that the owner of a mounted folder can be set to it from outside.
RUN useradd --uid 1000 --no-create-home --home-dir /data --shell /usr/sbin/nologin tileharvest \
    && install --directory --owner=1000 --group=1000 /data /scrapyd
COPY --from=build /venv /venv
COPY container/scrapy.cfg /etc/scrapy.cfg
COPY container/scrapyd.conf /etc/scrapyd/scrapyd.conf
COPY container/__init__.py container/healthy.py container/launcher.py container/start /opt/tileharvest/container/
# Prometheus is served where PROMETHEUS_PORT is set; who reaches a container is decided outside.
ENV PATH=/venv/bin:$PATH \
    PROMETHEUS_HOST=0.0.0.0 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/opt/tileharvest \
    PYTHONUNBUFFERED=1 \
    TILEHARVEST_DATA=/data \
    TILEHARVEST_MAPS=/data/maps.toml
# As a number, which Kubernetes can see not to be root's.
USER 1000:1000
WORKDIR /data
VOLUME ["/data", "/scrapyd"]
EXPOSE 6800 8000
# Worker: the data folder can be written and Redis answers; scrapyd and viewer: they answer.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s CMD ["python", "-m", "container.healthy"]
# Scrapy stops tidily on the first SIGTERM: it finishes what is under way, and gives back what it has not begun.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/tileharvest/container/start"]
CMD ["run", "--serve"]
