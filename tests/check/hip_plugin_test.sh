#!/bin/sh
# The HIP plugin is conformant at level 4 on device, pinned and unified memory of the stand-in runtime, as it
# is and with what it does in one version or another: granules of a page, a largest handle, descriptors that
# handles take, memory that is freed with its addresses, no read-only access, no aliasing, no virtual memory
# at all. So it is on CUDA's driver, by the library that hands its calls on. Without a runtime it says so.
set -eu
plugin=plugins/hip/libmembrane-hip.so
check() { tools/membrane-check "$plugin" "$@"; }
told() { if check --level 1 --only OPN-001 >out.txt; then return 1; fi; grep -qF "$1" out.txt; }

mkdir -p none/libamdhip64.so.7 none/libamdhip64.so.6 none/libamdhip64.so # a machine may have a runtime of its own
LD_LIBRARY_PATH=none told 'MBR_NO_DEVICE: no HIP runtime is installed: none/libamdhip64.so.7'
MEMBRANE_HIP_LIBRARY=/absent.so told '(MEMBRANE_HIP_LIBRARY names it)'

STANDIN_CONTENT=zeros
STANDIN_DEVICES=2
export STANDIN_CONTENT STANDIN_DEVICES
(
    LD_LIBRARY_PATH=$PWD/tests/standin/hip
    export LD_LIBRARY_PATH
    STANDIN_DEVICES=0 told 'MBR_NO_DEVICE: hipInit: hipErrorInvalidDevice (101)'
    check --device 3 --level 4 # device1
    check --device 1 --level 4 # pinned0
    check --device 2 --level 4 # unified0
    STANDIN_HIP_VERSION=70100000 STANDIN_HIP_GRANULE_TOLD_BYTES=4096 STANDIN_HIP_HANDLE_MAX_BYTES=268435456 \
        STANDIN_HIP_DESCRIPTORS=1 STANDIN_HIP_FREES_LATE=1 STANDIN_HIP_OWN_LAST=1 STANDIN_HIP_NO_READ_ONLY=1 \
        check --device 3 --level 4
    STANDIN_HIP_NO_ALIASING=1 STANDIN_MODE=lazy check --device 3 --level 4
    STANDIN_HIP_VERSION=60041133 check --device 0 --level 4
)
LD_LIBRARY_PATH=$PWD/tests/standin:$PWD/tests/forward
export LD_LIBRARY_PATH
check --device 3 --level 4
