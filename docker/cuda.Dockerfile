# gpupool on NVIDIA's runtime image. Built on Debian, shipped as the
# relocatable bundle, so that the base may be any image with glibc 2.36 or
# later. This version has no CUDA back end yet: it runs virtual CPU devices
# there and `--devices cuda:0` is refused with a sentence.
#   docker build -f docker/cuda.Dockerfile -t gpupool:cuda .
#   docker run --rm --gpus all -p 8000-8002:8000-8002 gpupool:cuda
ARG BUILD_BASE=debian:bookworm-slim
ARG BASE=nvidia/cuda:13.0.0-cudnn-runtime-ubuntu24.04

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY packages.txt ./
RUN apt-get update \
 && (grep '^build ' packages.txt | cut -d' ' -f2; echo xz-utils) \
  | xargs apt-get install -y --no-install-recommends \
 && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake -G Ninja -B build/release -DCMAKE_BUILD_TYPE=Release \
      -DGPUPOOL_TESTS=OFF -DGPUPOOL_BENCHMARKS=OFF \
 && ninja -C build/release gpupool gpupoold gpupool-worker \
 && tools/bundle.sh build/release \
 && mv build/release/bundle/gpupool-*/ /bundle

FROM ${BASE}
COPY --from=build /bundle/ /opt/gpupool/
RUN useradd --system --uid 10001 --home-dir /var/lib/gpupool --create-home gpupool \
 && ln -s /opt/gpupool/bin/gpupool /opt/gpupool/bin/gpupoold /usr/local/bin/
USER gpupool
VOLUME /var/lib/gpupool
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["gpupool", "--timeout", "2", "devices", "-o", "json"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["gpupoold", "--state-dir", "/var/lib/gpupool", "--listen", "0.0.0.0"]
