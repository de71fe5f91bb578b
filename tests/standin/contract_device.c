/* Rows about the library before and after cuInit, about devices, their attributes, names of errors
 * and how functions are found. */
#include "tests/standin/contract.h"

#include <stdio.h>
#include <string.h>

static void before_init(void)
{
    struct mbr_cuda_properties properties = properties_of(0);
    struct mbr_cuda_access access = {{MBR_CUDA_LOCATION_DEVICE, 0}, MBR_CUDA_ACCESS_READ_WRITE};
    mbr_cuda_address at = 0;
    mbr_cuda_handle handle = 0;
    size_t bytes;
    const size_t some = (size_t)2 << 20;
    see(cu.address_reserve(&at, some, 0, 0, 0));
    see(cu.handle_create(&handle, some, &properties, 0));
    see(cu.granularity(&bytes, &properties, MBR_CUDA_GRANULARITY_MINIMUM));
    see(cu.map(some, some, 0, 1, 0));
    see(cu.set_access(some, some, &access, 1));
    see(cu.unmap(some, some));
    see(cu.handle_release(1));
    see(cu.address_free(some, some));
}

static void before_init_others(void)
{
    int number = 0;
    mbr_cuda_device device;
    mbr_cuda_context context;
    mbr_cuda_event event;
    size_t bytes;
    see(cu.device_count(&number));
    see(cu.device_get(&device, 0));
    see(cu.primary_retain(&context, 0));
    see(cu.event_create(&event, 0));
    see(cu.memory_info(&bytes, &bytes));
    see(cu.context_current(&context));
}

static void version_before_init(void)
{
    int version = 0;
    see(cu.driver_version(&version));
    say_if(version >= MBR_CUDA_VERSION_MIN, "new enough", "too old");
    const char *text = NULL;
    see(cu.error_name(MBR_CUDA_NOT_INITIALIZED, &text));
    say(text ? text : "no text");
}

static void init_flags(void)
{
    see(cu.init(1));
    see(cu.init(0));
    see(cu.init(0));
}

static void ordinals(void)
{
    int count = 0;
    mbr_cuda_device device;
    see(cu.device_count(&count));
    see(cu.device_get(&device, 0));
    see(cu.device_get(&device, -1));
    see(cu.device_get(&device, count));
    see(cu.device_count(NULL));
}

static void say_attribute(uint32_t attribute)
{
    int value = 0;
    see(cu.device_attribute(&value, attribute, 0));
    say_if(value > 0, "yes", "no");
}

static void attributes(void)
{
    say_attribute(MBR_CUDA_HAS_VIRTUAL_MEMORY);
    say_attribute(MBR_CUDA_HAS_UNIFIED_ADDRESSING);
    say_attribute(MBR_CUDA_HAS_INTEGRATED_MEMORY);
    say_attribute(MBR_CUDA_CAPABILITY_MAJOR);
    say_attribute(STANDIN_ATTRIBUTE_MAP_HOST);
    say_attribute(STANDIN_ATTRIBUTE_WARP);
}

static void attributes_wrong(void)
{
    int value = 0;
    see(cu.device_attribute(&value, 100000, 0));
    see(cu.device_attribute(&value, 0, 0));
    see(cu.device_attribute(&value, MBR_CUDA_HAS_VIRTUAL_MEMORY, 1000));
    see(cu.device_attribute(NULL, MBR_CUDA_HAS_VIRTUAL_MEMORY, 0));
}

static void names(void)
{
    char name[128] = "";
    struct mbr_cuda_uuid uuid = {{0}};
    const struct mbr_cuda_uuid none = {{0}};
    see(cu.device_name(name, sizeof name, 0));
    say_if(name[0] != '\0', "a name", "no name");
    see(cu.device_uuid(&uuid, 0));
    say_if(memcmp(&uuid, &none, sizeof uuid) != 0, "a UUID", "no UUID");
    see(cu.device_uuid(&uuid, 1000));
    see(cu.device_name(name, sizeof name, 1000));
}

static void pci(void)
{
    char text[32] = "";
    char numbers[32];
    int domain = -1;
    int bus = -1;
    int place = -1;
    mbr_cuda_device device = 77;
    see(cu.device_pci(text, sizeof text, 0));
    NEED(cu.device_attribute(&domain, STANDIN_ATTRIBUTE_PCI_DOMAIN, 0));
    NEED(cu.device_attribute(&bus, STANDIN_ATTRIBUTE_PCI_BUS, 0));
    NEED(cu.device_attribute(&place, STANDIN_ATTRIBUTE_PCI_DEVICE, 0));
    snprintf(numbers, sizeof numbers, "%04X:%02X:%02X.0", (unsigned)domain, (unsigned)bus,
        (unsigned)place);
    say_if(strcasecmp(text, numbers) == 0, "as its attributes", "unlike its attributes");
    see(cu.device_by_pci(&device, text));
    say_if(device == 0, "same device", "another device");
    see(cu.device_by_pci(&device, "0FFF:FF:1F.0"));
}

static void total(void)
{
    size_t bytes = 0;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    see(cu.device_total(&bytes, 0));
    see(cu.device_total(&bytes, 1000));
    see(cu.memory_info(&free_bytes, &total_bytes));
    NEED(cu.device_total(&bytes, 0));
    say_if(total_bytes == bytes, "one total", "two totals");
    say_if(free_bytes > 0 && free_bytes <= total_bytes, "free within it", "free beyond it");
}

static void error_names(void)
{
    const char *text = NULL;
    see(cu.error_name(MBR_CUDA_ILLEGAL_ADDRESS, &text));
    say(text ? text : "no text");
    see(cu.error_string(MBR_CUDA_OUT_OF_MEMORY, &text));
    say_if(text && *text, "a text", "no text");
    see(cu.error_name(MBR_CUDA_SUCCESS, &text));
    say(text ? text : "no text");
}

static void error_unknown(void)
{
    const char *text = "before";
    see(cu.error_name(4321, &text));
    say(text ? text : "no text");
    text = "before";
    see(cu.error_string(4321, &text));
    say(text ? text : "no text");
}

static void find_function(void)
{
    void *function = NULL;
    uint32_t found = 77;
    see(cu.find_function("cuMemCreate", &function, 12000, 0, &found));
    say_if(function && found == STANDIN_SYMBOL_FOUND, "found", "not found");
    see(cu.find_function("cuMemNoSuchThing", &function, 12000, 0, &found));
    say_if(found == STANDIN_SYMBOL_NOT_FOUND, "no such symbol", "another reason");
    say_if(function == NULL, "NULL", "a function");
}

static void find_too_new(void)
{
    void *function = NULL;
    uint32_t found = 77;
    see(cu.find_function("cuMemCreate", &function, 9000, 0, &found));
    say_if(found == STANDIN_SYMBOL_TOO_NEW, "too new", "another reason");
}

static void peers(void)
{
    int can = 7;
    see(cu.can_access_peer(&can, 0, 0));
    say_if(can == 0, "not of itself", "of itself");
    see(cu.can_access_peer(&can, 0, 1000));
}

const struct row contract_device_rows[] = {
    {"D1 calls-of-virtual-memory-before-init", before_init,
        "NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, "
        "NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED",
        ROW_BARE},
    {"D1.others other-calls-before-init", before_init_others,
        "NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, NOT_INITIALIZED, "
        "NOT_INITIALIZED",
        ROW_BARE},
    {"D1.version version-and-error-names-before-init", version_before_init,
        "OK, new enough, OK, CUDA_ERROR_NOT_INITIALIZED", ROW_BARE},
    {"device.init init-with-flags-then-twice", init_flags, "INVALID_VALUE, OK, OK", ROW_BARE},
    {"device.ordinals count-get-first-negative-past-the-last", ordinals,
        "OK, OK, INVALID_DEVICE, INVALID_DEVICE, INVALID_VALUE", ROW_SHARED},
    {"device.attributes attributes-that-the-plugin-asks", attributes,
        "OK, yes, OK, yes, OK, no, OK, yes, OK, yes, OK, yes", ROW_SHARED},
    {"device.attributes.wrong attribute-unknown-or-no-device", attributes_wrong,
        "INVALID_VALUE, INVALID_VALUE, INVALID_DEVICE, INVALID_VALUE", ROW_SHARED},
    {"device.names name-uuid-and-of-no-device", names,
        "OK, a name, OK, a UUID, INVALID_DEVICE, INVALID_DEVICE", ROW_SHARED},
    {"device.pci pci-text-attributes-and-back", pci,
        "OK, as its attributes, OK, same device, INVALID_DEVICE", ROW_SHARED},
    {"device.total total-and-free", total, "OK, INVALID_DEVICE, OK, one total, free within it",
        ROW_SHARED},
    {"device.peers peer-of-itself-and-of-nobody", peers, "OK, not of itself, INVALID_DEVICE",
        ROW_SHARED},
    {"error.names name-and-text-of-codes", error_names,
        "OK, CUDA_ERROR_ILLEGAL_ADDRESS, OK, a text, OK, CUDA_SUCCESS", ROW_SHARED},
    {"error.unknown name-and-text-of-an-unknown-code", error_unknown,
        "INVALID_VALUE, no text, INVALID_VALUE, no text", ROW_SHARED},
    {"find.name proc-address-of-a-known-and-an-unknown-name", find_function,
        "OK, found, OK, no such symbol, NULL", ROW_SHARED},
    {"find.version proc-address-for-an-older-version", find_too_new, "OK, too new", ROW_SHARED},
    {0},
};
