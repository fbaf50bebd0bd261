// The table of findings. docs/doctor.md shows it. Tests compare the two, and
// check that each id is used.
#include "server/worker/doctor/findings.h"

namespace gpupool::server {
namespace {

constexpr Severity kOk = Severity::kOk;
constexpr Severity kNote = Severity::kNote;
constexpr Severity kWarn = Severity::kWarn;
constexpr Severity kFail = Severity::kFail;
// Value of the last column.
constexpr bool kFailsWithoutGpu = true;

constexpr FindingKind kKinds[] = {
    // The driver.
    {"driver.ok", kOk, "NVIDIA driver $0, which runs CUDA $1", ""},
    {"driver.none", kNote,
     "this machine has no NVIDIA GPU and no driver: training runs on virtual "
     "CPU devices",
     "to use a GPU, install one and NVIDIA's driver, version 580 or later",
     kFailsWithoutGpu},
    {"driver.no_gpu_behind_it", kNote,
     "the driver's library $0 is installed, but this machine has no NVIDIA "
     "GPU: training runs on virtual CPU devices",
     "to use a GPU, start on a machine that has one", kFailsWithoutGpu},
    {"driver.not_installed", kFail,
     "there are $0 NVIDIA GPUs on the PCI bus, but no driver",
     "install NVIDIA's driver, version 580 or later (from NVIDIA's package "
     "repository: cuda-drivers), and restart the machine"},
    {"driver.kernel_module_missing", kFail,
     "the driver's library is installed, but its kernel module is not loaded",
     "run `modprobe nvidia`; where that fails, `dkms status` and `dmesg` tell "
     "whether the module was built for this kernel and whether secure boot "
     "refuses it"},
    {"driver.libcuda_missing", kFail,
     "the kernel module $0 is loaded, but there is no libcuda.so.1",
     "install the driver's user-space package of the same version (Debian: "
     "libcuda1, Ubuntu: libnvidia-compute-580)"},
    {"driver.libcuda_broken", kFail, "libcuda.so.1 cannot be loaded: $0",
     "install the driver again, so that all of its libraries have one version"},
    {"driver.stub_library", kFail,
     "$0 is the stub of the CUDA toolkit, not a driver",
     "take the toolkit's folder stubs out of LD_LIBRARY_PATH and of "
     "/etc/ld.so.conf.d"},
    {"driver.device_files_missing", kFail,
     "the kernel module is loaded, but there is no $0",
     "run `nvidia-modprobe -u -c=0`, or `nvidia-smi` once as root"},
    {"driver.no_permission", kFail, "this user may not read and write $0",
     "add the user to the group that owns the files (`ls -l /dev/nvidia*`), or "
     "load the module with NVreg_DeviceFileMode=0666"},
    {"driver.too_old", kFail,
     "the driver $0 runs CUDA $1; gpupool's module needs CUDA $2",
     "install a driver of version $3 or later; on data centre GPUs the package "
     "cuda-compat-13-0 will do, with its folder in LD_LIBRARY_PATH"},
    {"driver.no_version", kFail,
     "the driver $0 does not tell which CUDA it runs; gpupool's module needs "
     "CUDA $1",
     "install a driver of version $2 or later, all of it of one version"},
    {"driver.mismatch", kFail,
     "the driver's kernel module $0 and its libraries are of different "
     "versions: the driver was updated while it was loaded",
     "restart the machine, or a container that is older than the update"},
    {"driver.compat_not_supported", kFail,
     "this GPU does not run CUDA through a forward compatibility package "
     "($0)",
     "take the folder compat out of LD_LIBRARY_PATH and of /etc/ld.so.conf.d, "
     "and install a driver of version 580 or later"},
    {"driver.fabric_not_ready", kFail,
     "the GPUs are not ready ($0): those that are connected by NVSwitch wait "
     "for the fabric manager",
     "run `systemctl enable --now nvidia-fabricmanager`, of the driver's "
     "version"},
    {"driver.unknown_error", kFail, "$0 failed with code 999, without a reason",
     "run `rmmod nvidia_uvm && modprobe nvidia_uvm`; where that does not "
     "help, restart the machine"},
    {"driver.failed", kFail, "$0 failed with code $1 of the CUDA driver",
     "look for lines with NVRM or Xid in `dmesg`, and whether `nvidia-smi` "
     "works"},
    {"driver.crashes", kFail, "asking the CUDA driver ended the process: $0",
     "install the driver again; the kernel's log (`dmesg`) may say more"},
    {"driver.hangs", kFail, "the CUDA driver does not answer: $0",
     "look for lines with NVRM or Xid in `dmesg`; a GPU that hangs needs a "
     "restart of the machine"},
    {"driver.wsl", kNote,
     "this is WSL: the driver is that of Windows, and no driver belongs in "
     "here",
     ""},
    {"driver.wsl_too_old", kFail, "this is WSL without /dev/dxg",
     "run `wsl --update` in Windows and install NVIDIA's driver there"},

    // The container.
    {"container.none", kOk, "not in a container", ""},
    {"container.ok", kOk, "in a container ($0)", ""},
    {"container.no_gpus", kWarn,
     "the machine has NVIDIA's driver, but this container ($0) was given no "
     "GPU",
     "start it with `docker run --gpus all` (the NVIDIA Container Toolkit must "
     "be installed on the host); in Kubernetes ask for nvidia.com/gpu",
     kFailsWithoutGpu},
    {"container.no_gpus_asked", kWarn,
     "NVIDIA_VISIBLE_DEVICES is \"$0\": this container asks for no GPU",
     "start it with NVIDIA_VISIBLE_DEVICES=all, or with `--gpus all`",
     kFailsWithoutGpu},
    {"container.no_compute", kFail,
     "NVIDIA_DRIVER_CAPABILITIES is \"$0\": the container gets no libcuda.so.1",
     "start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {"container.no_utility", kWarn,
     "NVIDIA_DRIVER_CAPABILITIES is \"$0\": the container gets no management "
     "library",
     "start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
    {"container.libcuda_missing", kFail,
     "this container ($0) has the GPUs' device files, but no libcuda.so.1",
     "give it the GPUs by the NVIDIA Container Toolkit (`--gpus all`) instead "
     "of by `--device`, which brings no libraries"},
    {"container.device_files_missing", kFail,
     "this container ($0) has libcuda.so.1, but no $1",
     "start it with `--gpus all`; after `systemctl daemon-reload` on the host "
     "older runtimes take the files away, so start it again"},

    // The GPUs.
    {"gpu.ok", kOk, "$0, $1: $2 ($3 free), compute capability $4", ""},
    {"gpu.none", kFail, "the driver works, but shows no GPU",
     "see whether `lspci -d 10de:` lists one and what `dmesg` says about it"},
    {"gpu.all_hidden", kWarn,
     "CUDA_VISIBLE_DEVICES=\"$0\" hides every GPU of the machine",
     "unset CUDA_VISIBLE_DEVICES, or name GPUs that there are",
     kFailsWithoutGpu},
    {"gpu.some_hidden", kNote,
     "CUDA_VISIBLE_DEVICES=\"$0\" shows $1 of $2 GPUs",
     "unset CUDA_VISIBLE_DEVICES to use them all"},
    {"gpu.too_old", kFail,
     "$0 has compute capability $1; gpupool needs 7.5 or later",
     "use another GPU, or `--devices cpu:N`"},
    {"gpu.no_code", kFail,
     "$0 has compute capability $1; the module has code for $2",
     "build gpupool with -DGPUPOOL_CUDA_ARCHITECTURES=$3, or without that "
     "option for all GPUs"},
    {"gpu.compiled_at_start", kNote,
     "$0 has compute capability $1; the module has no machine code for it, so "
     "the driver compiles its kernels at the first start",
     "build gpupool with -DGPUPOOL_CUDA_ARCHITECTURES=$2 for a faster start"},
    {"gpu.no_virtual_memory", kFail,
     "$0 has no virtual memory management (cuMemMap), as some virtual GPUs",
     "give the machine the whole GPU (passthrough), or a vGPU profile with "
     "unified memory"},
    {"gpu.memory_held", kWarn, "$0 has $1 free of $2; $3 hold the rest",
     "end those processes, or give gpupool less with `--device-memory`"},
    {"gpu.prohibited", kFail, "$0 is in compute mode Prohibited",
     "run `nvidia-smi -i $1 -c DEFAULT` as root"},
    {"gpu.exclusive", kWarn,
     "$0 is in an exclusive compute mode, but two processes open it: its "
     "worker and the one that plans",
     "run `nvidia-smi -i $1 -c DEFAULT` as root"},
    {"gpu.mig", kNote,
     "$0 is divided by MIG: CUDA shows a process one instance only",
     "use the whole GPU after `nvidia-smi -i $1 -mig 0`, or name the instance "
     "in CUDA_VISIBLE_DEVICES"},
    {"gpu.persistence_off", kNote,
     "persistence mode of $0 is off: the first process waits seconds for it",
     "run `systemctl enable --now nvidia-persistenced`, or `nvidia-smi -pm 1` "
     "as root"},
    {"gpu.lost", kFail, "$0 has fallen off the bus or needs a reset (NVML $1)",
     "restart the machine; when it comes back, look at its power and its slot"},
    {"gpu.memory_errors", kWarn,
     "$0 has counted $1 memory errors that were not corrected since the driver "
     "started",
     "look for Xid lines in `dmesg`, and reset the GPU (`nvidia-smi -i $2 -r`) "
     "when nothing runs on it"},
    {"gpu.remap_pending", kWarn, "$0 has bad memory rows that wait for a reset",
     "run `nvidia-smi -i $1 -r` when nothing runs on it"},
    {"gpu.remap_failed", kFail, "$0 has bad memory rows and no spare ones left",
     "have the GPU replaced"},

    // Connections between GPUs.
    {"peer.ok", kOk, "all $0 GPUs reach each other's memory ($1)", ""},
    {"peer.none", kNote,
     "$0 do not reach each other's memory: sums between them go through the "
     "host",
     "on GPUs that can, turn the IOMMU and PCIe ACS off in the firmware; many "
     "desktop GPUs cannot"},

    // NVIDIA's libraries.
    {"library.ok", kOk, "$0$1 in $2", ""},
    {"library.missing", kWarn, "$0 ($1) is not found: $2",
     "install $3, or name its folder with `--cuda-lib-dir`"},
    {"library.optional_missing", kNote, "$0 ($1) is not found: $2",
     "install $3, or name its folder with `--cuda-lib-dir`"},
    {"library.other_major", kWarn,
     "$0 is there only as $1, but $2 is needed: $3",
     "install $4 beside it, or name its folder with `--cuda-lib-dir`"},
    {"library.other_cuda", kWarn, "$0 $1 was made for CUDA $2, not 13: $3",
     "install $4 instead"},
    {"library.too_old", kWarn, "$0 $1 is too old, it must be $2: $3",
     "install a newer $4"},
    {"library.part_missing", kWarn, "$0 $1 lacks its parts $2: $3",
     "install $4 again, with all of its files in one folder"},
    {"library.unusable", kWarn, "$0 is there but cannot be loaded: $1",
     "install $2 again, or name another folder with `--cuda-lib-dir`"},
    {"library.fatal", kFail,
     "$0 ($1) ends or stops the process that loads it: $2",
     "install $3 again, or name another folder with `--cuda-lib-dir`"},
    {"library.passed_over", kWarn,
     "$0 is taken from $1, since another file cannot be loaded: $2",
     "take that file out of its folder, or install $3 there again"},
    {"library.no_folder", kWarn, "`--cuda-lib-dir` names a wrong folder: $0",
     "name folders that there are, by their full paths, with colons between "
     "them"},
    {"library.nvml_missing", kWarn,
     "there is no management library: temperatures, power and the driver's "
     "error reports are not seen",
     "install the driver's libnvidia-ml.so.1 (Debian: libnvidia-ml1); in a "
     "container NVIDIA_DRIVER_CAPABILITIES must have utility"},
    {"library.nvml_failed", kWarn, "the management library fails: $0",
     "see whether `nvidia-smi` works and what it says"},

    // gpupool's own module.
    {"module.ok", kOk, "gpupool's CUDA module $0 has code for $1", ""},
    {"module.missing", kFail,
     "there is no libgpupool_cuda.so in $0: this build uses no GPU",
     "install a gpupool that was built where nvcc is, with lib/ beside bin/"},
    {"module.absent", kNote,
     "there is no libgpupool_cuda.so in $0: this build uses no GPU",
     "to use one, install a gpupool that was built where nvcc is",
     kFailsWithoutGpu},
    {"module.unusable", kFail, "gpupool's CUDA module: $0",
     "install gpupool-worker and libgpupool_cuda.so of one build"},
    {"module.fails", kFail, "gpupool's CUDA module finds no GPU: $0",
     "install a driver of version 580 or later, all of it of one version, and "
     "see whether `nvidia-smi` works"},
    {"module.crashes", kFail, "gpupool's CUDA module: $0",
     "install gpupool-worker and libgpupool_cuda.so of one build, and see "
     "whether `nvidia-smi` answers"},

    // Limits of the machine and of the container.
    {"limits.ok", kOk, "$0 cores and $1 of memory to use", ""},
    {"limits.memory", kWarn,
     "$0 of memory may be used, but $1 GPU workers need about $2 on the host, "
     "$3 of each pinned for its slots",
     "raise the limit (docker `--memory`, systemd MemoryMax), or lower "
     "gpupoold's `--slots` or `--slot-bytes`"},
    {"limits.locked_memory", kNote,
     "`ulimit -l` is $0, less than the $1 of a slot ring: the CUDA driver pins "
     "it without asking that limit, only network cards ask it",
     "nothing on one machine; for InfiniBand raise it (docker `--ulimit "
     "memlock=-1`, systemd LimitMEMLOCK=infinity)"},
    {"limits.shared_memory", kWarn,
     "/dev/shm has $0: NCCL shares buffers between the ranks of a job there, "
     "and a job on several GPUs may fail",
     "start the container with `--shm-size=1g` or `--ipc=host`"},
    {"limits.open_files", kWarn, "`ulimit -n` is $0, at least $1 are advised",
     "raise it (`ulimit -n 65536`, docker `--ulimit nofile=65536`, systemd "
     "LimitNOFILE=65536)"},
    {"limits.cores", kWarn,
     "$0 cores are seen, but the container may use the time of $1: workers "
     "start too many threads and are throttled",
     "start it with `--cpuset-cpus` instead of `--cpus`, or raise the quota"},
    {"limits.processes", kWarn,
     "the container may have $0 processes and threads, at least $1 are advised",
     "raise it (docker `--pids-limit 4096`, systemd TasksMax)"},
    {"limits.overcommit", kNote,
     "vm.overcommit_memory is 2: what devices and drivers reserve without "
     "using it is counted, and memory may be refused while it is free",
     "run `sysctl vm.overcommit_memory=0`"},
    {"limits.addresses", kFail,
     "`ulimit -v` is $0: devices reserve twice their memory in addresses, and "
     "the CUDA driver more than all memory",
     "run `ulimit -v unlimited` before the start"},
    {"limits.blocked_call", kFail, "the system refuses the call $0",
     "use Linux 5.6 or later, and in a container a seccomp profile that allows "
     "it (docker 20.10 or later)"},
    {"limits.sandbox", kNote,
     "the system has no $0, so workers run without that layer of the sandbox",
     "use Linux 6.12 or later, and in a container a seccomp profile that "
     "allows it (docker 23 or later); without Landlock, data sets with a "
     "tokenizer need `--sandbox off`"},

    // The state folder and the ports.
    {"state.ok", kOk, "the state folder $0 is on $1 with $2 free", ""},
    {"state.held", kOk, "a gpupoold uses the state folder $0", ""},
    {"state.no_folder", kFail, "the state folder $0 cannot be one: $1",
     "give a `--state-dir` that is a folder, or that can be made"},
    {"state.read_only", kFail,
     "the state folder $0 is on a file system that is mounted read-only",
     "mount a writable folder there (docker `-v gpupool:$0`), or give another "
     "`--state-dir`"},
    {"state.not_writable", kFail, "the state folder $0 cannot be written: $1",
     "make it belong to the user that runs gpupoold, or give another "
     "`--state-dir`"},
    {"state.no_fsync", kFail, "fsync fails in the state folder $0: $1",
     "give a `--state-dir` on a local disk"},
    {"state.in_memory", kWarn,
     "the state folder $0 is in memory ($1): a restart of the machine loses "
     "jobs and models",
     "give a `--state-dir` on a disk"},
    {"state.overlay", kWarn,
     "the state folder $0 is in the container's own layer: it goes with the "
     "container",
     "mount a volume there (docker `-v gpupool:$0`)"},
    {"state.network", kWarn,
     "the state folder $0 is on a network file system ($1), where SQLite's "
     "locks and fsync may not hold",
     "give a `--state-dir` on a local disk"},
    {"state.disk_low", kWarn, "the state folder $0 has $1 free",
     "free some space, or give a `--state-dir` on a larger disk"},
    {"port.held", kWarn, "something listens on port $0",
     "stop it (`ss -ltnp 'sport = :$0'` names it), or start gpupoold with "
     "another $1"},
};

}  // namespace

absl::Span<const FindingKind> FindingKinds() { return kKinds; }

}  // namespace gpupool::server
