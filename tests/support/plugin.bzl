"""On which plugins a suite runs: said here, and nowhere else.

A suite is one program. Alone it runs on the host plugin, as `foo_test`; `device_suite` lets the same program run
once more as `foo_test_cuda` and `foo_test_hip`, on those plugins over their stand-ins. The program learns of it from the
environment alone (tests/support/plugin.h), and has no word of any one device.
"""

# A further backend adds itself by its entry here and its name in DEVICES.
_DEVICES = {
    "cuda": struct(
        plugin = "//plugins/cuda:libmembrane-cuda.so",
        driver = "//tests/standin:libcuda.so.1",
        knobs = {
            "STANDIN_GRANULE_MIN_BYTES": "65536",
            "STANDIN_GRANULE_RECOMMENDED_BYTES": "2097152",
        },
    ),
    # The plugin asks for 2 MiB at the least, unless it is told less. The runtime has the quirks that the host
    # has to answer.
    "hip": struct(
        plugin = "//plugins/hip:libmembrane-hip.so",
        driver = "//tests/standin:hip/libamdhip64.so.7",
        knobs = {
            "MEMBRANE_TEST_GRANULE": "4096",
            "STANDIN_GRANULE_MIN_BYTES": "65536",
            "STANDIN_GRANULE_RECOMMENDED_BYTES": "2097152",
            "STANDIN_HIP_REFUSES_ACCESS": "3",
            "STANDIN_HIP_SINGLE_ACCESS": "1",
            "STANDIN_HIP_OWN_LAST": "1",
            "STANDIN_HIP_FREES_LATE": "1",
        },
    ),
}

# Knobs of suites that call a plugin's slots: what is refused for no reason only the host asks for again.
CALM = {
    "STANDIN_HIP_REFUSES_ACCESS": "0",
    "STANDIN_HIP_SINGLE_ACCESS": "0",
}

# What suites run on that name no devices of their own.
DEVICES = ["cuda", "hip"]

def _path(label):
    return label[2:].replace(":", "/")

def _folder(label):
    return _path(label).rpartition("/")[0]

def device_environment(device, knobs = {}):
    """What a program has to know of a device, as a list of NAME=VALUE.

    Args:
      device: its name, one of _DEVICES.
      knobs: further variables, such as those of tests/standin/control.h.
    Returns:
      the list; LD_LIBRARY_PATH is where the driver's library is, from the folder that tests start in.
    """
    it = _DEVICES[device]
    environment = {
        "MEMBRANE_TEST_PLUGIN": _path(it.plugin),
        "MEMBRANE_TEST_DRIVER": _path(it.driver).rpartition("/")[2],
        "LD_LIBRARY_PATH": _folder(it.driver),
        "STANDIN_CLEAN": "1",
    }
    environment.update(it.knobs)
    environment.update(knobs)
    return ["%s=%s" % pair for pair in environment.items()]

def device_data(device):
    """What a program needs of a device among its data."""
    return [_DEVICES[device].plugin, _DEVICES[device].driver]

def device_suite(name, test, devices = DEVICES, knobs = {}, args = [], data = [], size = "small", **kwargs):
    """Runs a test's program once more on each of these devices.

    Args:
      name: the host plugin's test; `_DEVICE` is appended.
      test: its label.
      devices: whose plugins, of _DEVICES.
      knobs: what the stand-in is to be like, where a suite wants another one.
      args: of the program.
      data: further files.
      size: of the tests.
      **kwargs: as for sh_test. Tags are `once` unless it says otherwise: which calls are made depends on no
        compiler, and the program itself runs on the host plugin in every build.
    """
    kwargs.setdefault("tags", ["once"])
    for device in devices:
        native.sh_test(
            name = "%s_%s" % (name, device),
            size = size,
            srcs = ["//tests/support:run_on.sh"],
            args = device_environment(device, knobs) + ["$(location %s)" % test] + args,
            data = [test] + device_data(device) + data,
            **kwargs
        )
