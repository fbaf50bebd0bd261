# What this machine has of CUDA, and what the build made of it.

# Tests look for the fixed places in a folder of their own.
system=${GPUPOOL_SYSTEM_ROOT:-}

# look_for_cuda: sets `nvcc` to the CUDA compiler, in the order in which
# cmake/cuda.cmake looks, and `driver` to a file of the NVIDIA driver. Each is
# empty where there is none.
look_for_cuda() {
  local place
  nvcc='' driver=''
  for place in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} \
    "$system/usr/local/cuda/bin/nvcc" "$(command -v nvcc || true)"; do
    [ -n "$nvcc" ] || [ ! -x "$place" ] || nvcc=$place
  done
  for place in "$system"/dev/nvidia0 \
    "$system"/usr/lib/{x86_64-linux-gnu,wsl/lib}/libcuda.so.1 \
    "$system"/usr/lib64/libcuda.so.1 "$(command -v nvidia-smi || true)"; do
    [ -n "$driver" ] || [ ! -e "$place" ] || driver=$place
  done
}

# cuda_of_build PRESET: "yes", "off", or "no: " and the reason, as CMake found.
cuda_of_build() {
  cat "build/$1/cuda_module.txt" 2>/dev/null || echo "no: it is not configured"
}

# cuda_news PRESET: one sentence about the CUDA module of this build.
cuda_news() {
  local module=build/$1/lib/libgpupool_cuda.so state
  state=$(cuda_of_build "$1")
  look_for_cuda
  if [ "$state" = yes ] && [ -f "$module" ]; then
    printf 'the CUDA module was built: %s' "$module"
    [ -n "$driver" ] ||
      printf '; there is no NVIDIA driver here, so the CPU does the work'
  elif [ "$state" = off ]; then
    printf 'without the CUDA module: this build leaves it out'
  elif [ "$state" = yes ]; then
    printf 'without the CUDA module: it is not built; the CPU does the work'
  elif [ -n "$nvcc" ]; then
    printf 'without the CUDA module, the CPU does the work: %s' "${state#no: }"
  elif [ -n "$driver" ]; then
    printf 'there is an NVIDIA driver (%s) but no nvcc, so the CPU does the ' \
      "$driver"
    printf 'work; for the GPU install cuda-toolkit-13-0, '
    printf 'libcudnn9-dev-cuda-13 and libnccl-dev from the Debian or Ubuntu '
    printf 'repository of https://developer.nvidia.com/cuda-downloads, or set '
    printf 'CUDA_HOME to a CUDA 13 toolkit, and run this again'
  else
    printf 'without the CUDA module: there is neither an NVIDIA driver nor nvcc'
  fi
  printf '\n'
}
