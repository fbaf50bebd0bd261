# gpupool for machines without a GPU: two virtual CPU devices by default.
#   docker build -f docker/cpu.Dockerfile -t gpupool .
#   docker run --rm -p 127.0.0.1:8000-8002:8000-8002 -v gpupool:/var/lib/gpupool gpupool
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
WORKDIR /src
COPY packages.txt ./
RUN apt-get update \
 && grep '^build ' packages.txt | cut -d' ' -f2 \
  | xargs apt-get install -y --no-install-recommends \
 && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake -G Ninja -B /build -DCMAKE_BUILD_TYPE=Release \
      -DGPUPOOL_TESTS=OFF -DGPUPOOL_BENCHMARKS=OFF \
 && ninja -C /build gpupool gpupoold gpupool-worker gpupool-tokenizer \
 && strip /build/bin/*
# The run-time packages are those that own the libraries the binaries load.
# (By base name: dpkg may know a file under /lib or under /usr/lib.)
RUN ldd /build/bin/* | grep -o '/[^ ]*\.so[^ ]*' | sort -u | xargs -n1 realpath \
  | sed 's|.*/|*/|' | xargs dpkg-query -S | cut -d: -f1 | sort -u \
  > /build/runtime-packages.txt && grep -q libgrpc /build/runtime-packages.txt

FROM ${BASE}
COPY --from=build /build/runtime-packages.txt /tmp/
RUN apt-get update \
 && xargs apt-get install -y --no-install-recommends < /tmp/runtime-packages.txt \
 && rm -rf /var/lib/apt/lists/* /tmp/runtime-packages.txt \
 && useradd --system --uid 10001 --home-dir /var/lib/gpupool --create-home gpupool
COPY --from=build /build/bin/ /usr/local/bin/
COPY examples/ /usr/share/gpupool/examples/
# Calls from outside come over the container's network, so that the server cannot
# tell users. A configuration file and flags override this.
ENV GPUPOOLD_AUTH=none
USER gpupool
VOLUME /var/lib/gpupool
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["gpupool", "--timeout", "2", "devices", "-o", "json"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["gpupoold", "--state-dir", "/var/lib/gpupool", "--listen", "0.0.0.0"]
