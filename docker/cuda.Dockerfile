# gpupool for machines with NVIDIA GPUs: the CUDA module, cuBLASLt, cuDNN, NCCL,
# NVRTC and CUPTI, and nothing else of the CUDA toolkit. The driver comes from the
# host (580 or later for CUDA 13), by NVIDIA's container toolkit. Without a driver
# the same image runs on virtual CPU devices.
#   docker build -f docker/cuda.Dockerfile -t gpupool:cuda .
#   docker run --rm --gpus all --shm-size 1g -v gpupool:/var/lib/gpupool \
#     -p 127.0.0.1:8000-8002:8000-8002 gpupool:cuda
#   docker run ... gpupool:cuda --devices cuda:0,cpu:1
# NCCL needs the shared memory for jobs on several GPUs. The image is 1.57 GB in
# its layers, 981 MiB compressed with gzip: 1.22 GB are NVIDIA's libraries
# (measured with the module for sm_90; one for all GPUs is some MB more).
#
# TOOLKIT is any image with a CUDA 13 toolkit in /usr/local/cuda, with cuDNN 9 and
# NCCL 2 in it or where its distribution keeps them; none of its other files are
# used. BUILD_BASE and BASE are Debian 12, whose packages packages.txt names:
# NVIDIA has images of Ubuntu, whose oneDNN is another. CUDA_ARCHITECTURES are
# compute capabilities ("90"); empty means the default of cmake/cuda.cmake.
ARG TOOLKIT=nvidia/cuda:13.0.2-cudnn-devel-ubuntu24.04
ARG BUILD_BASE=debian:bookworm-slim
ARG BASE=debian:bookworm-slim

FROM ${TOOLKIT} AS toolkit
# Gathers the files that compiling needs.
RUN mkdir /toolkit /libraries && cd "$(realpath /usr/local/cuda)" \
 && tar -c --exclude='*_static*.a' --exclude='./nsight*' --exclude='./compute-sanitizer' \
      --exclude='./doc' --exclude='./samples' . | tar -x -C /toolkit \
 && cp "$(find -L . -name libcudart_static.a | head -n 1)" /toolkit/lib64/ \
 && find -L /usr/include -maxdepth 2 \( -name 'cudnn*.h' -o -name 'nccl*.h' \) \
      -exec cp -nL {} /toolkit/include/ ';' \
 && { [ ! -d extras/CUPTI/include ] || cp -nLr extras/CUPTI/include/. /toolkit/include/; }
# Gathers the libraries that the module opens, and those that they open in turn
# (docs/gpu_status.md).
RUN set -ef; for name in libcublasLt.so.13 libcudnn.so.9 libcudnn_graph.so.9 \
      libcudnn_heuristic.so.9 libcudnn_engines_precompiled.so.9 \
      libcudnn_engines_runtime_compiled.so.9 libnccl.so.2 libnvrtc.so.13 \
      libnvrtc-builtins.so.13.? libcupti.so.13; do \
      file=$(find -L /usr/local/cuda /usr/lib -name "$name" -not -path '*/stubs/*' \
        2>/dev/null | head -n 1); \
      [ -n "$file" ] || { echo "TOOLKIT has no $name" >&2; exit 1; }; \
      cp -L "$file" "/libraries/$(basename "$file")"; \
    done

FROM ${BUILD_BASE} AS build
ARG CUDA_ARCHITECTURES=
WORKDIR /src
COPY packages.txt ./
RUN apt-get update \
 && grep '^build ' packages.txt | cut -d' ' -f2 \
  | xargs apt-get install -y --no-install-recommends \
 && rm -rf /var/lib/apt/lists/*
COPY --from=toolkit /toolkit/ /usr/local/cuda/
COPY . .
RUN cmake -G Ninja -B build/release -DCMAKE_BUILD_TYPE=Release -DGPUPOOL_CUDA=ON \
      ${CUDA_ARCHITECTURES:+-DGPUPOOL_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}} \
      -DGPUPOOL_TESTS=OFF -DGPUPOOL_BENCHMARKS=OFF \
 && ninja -C build/release gpupool gpupoold gpupool-worker gpupool-tokenizer \
      gpupool_cuda \
 && strip build/release/bin/* build/release/lib/libgpupool_cuda.so
# The run-time packages are those that own the libraries the binaries load.
# (By base name: dpkg may know a file under /lib or under /usr/lib.)
RUN cd build/release && ldd bin/* lib/libgpupool_cuda.so \
  | grep -o '/[^ ]*\.so[^ ]*' | sort -u | xargs -n1 realpath \
  | sed 's|.*/|*/|' | xargs dpkg-query -S | cut -d: -f1 | sort -u \
  > runtime-packages.txt && grep -q libgrpc runtime-packages.txt

FROM ${BASE}
COPY --from=build /src/build/release/runtime-packages.txt /tmp/
RUN apt-get update \
 && xargs apt-get install -y --no-install-recommends < /tmp/runtime-packages.txt \
 && rm -rf /var/lib/apt/lists/* /tmp/runtime-packages.txt \
 && useradd --system --uid 10001 --home-dir /var/lib/gpupool --create-home gpupool \
 && echo /usr/local/lib/nvidia > /etc/ld.so.conf.d/gpupool-nvidia.conf
COPY --from=toolkit /libraries/ /usr/local/lib/nvidia/
COPY --from=build /src/build/release/bin/ /usr/local/bin/
COPY --from=build /src/build/release/lib/libgpupool_cuda.so /usr/local/lib/
COPY examples/ /usr/share/gpupool/examples/
RUN ldconfig
# NVIDIA's container toolkit reads these.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
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
