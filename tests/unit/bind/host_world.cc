/* Puts the world together and takes it apart; see host_world.h. */
#include "tests/unit/bind/host_world.h"

namespace membrane
{

HostWorld::HostWorld(uint64_t limit, const mbr_manager_seams *seams, const char *plugin_path,
    const std::vector<mbr_option> &mechanism_options, const char *shared_folder,
    const std::vector<mbr_access> &peers)
{
    auto options = sized<mbr_manager_options>();
    const mbr_manager_seams none = {};
    EXPECT_EQ(MBR_OK,
        mbr_manager_create_with_seams(&options, seams != nullptr ? seams : &none, &manager, &error))
        << error.text;
    auto open = sized<mbr_plugin_open_request>();
    brings_ep = plugin_path == nullptr && plugin_under_test().brings_ep;
    open.name = plugin_path != nullptr ? plugin_path : plugin_under_test().path;
    open.flags = MBR_PLUGIN_TRUSTED; /* a runfiles tree is not ours to judge */
    EXPECT_EQ(MBR_OK, mbr_manager_open_plugin(manager, &open, &plugin, &error)) << error.text;
    auto mechanism_request = sized<mbr_mechanism_open_request>();
    mechanism_request.plugin = plugin;
    const std::vector<mbr_option> &given = brings_ep && mechanism_options.empty()
        ? plugin_under_test().page_granule
        : mechanism_options;
    mechanism_request.options = given.data();
    mechanism_request.option_count = static_cast<uint32_t>(given.size());
    mechanism_request.peers = peers.data();
    mechanism_request.peer_count = static_cast<uint32_t>(peers.size());
    EXPECT_EQ(MBR_OK, mbr_manager_open_mechanism(manager, &mechanism_request, &mechanism, &error))
        << error.text;
    auto authority_request = sized<mbr_authority_request>();
    authority_request.tier = tier();
    authority_request.name = "pool";
    authority_request.limit_bytes = limit;
    authority_request.shared = shared_folder != nullptr ? "pool" : nullptr;
    authority_request.shared_folder = shared_folder;
    EXPECT_EQ(MBR_OK, mbr_manager_create_authority(manager, &authority_request, &authority, &error))
        << error.text;
    auto payer = holder_request(MBR_ROLE_KV, "kv");
    EXPECT_EQ(MBR_OK, mbr_manager_create_holder(manager, &payer, &holder, &error)) << error.text;
    create_ep();
    auto request = bind_request();
    EXPECT_EQ(MBR_OK, mbr_manager_bind(manager, &request, &binding, &error)) << error.text;
}

mbr_ep_request HostWorld::ep_request(const char *name) const
{
    auto request = sized<mbr_ep_request>();
    request.name = name;
    if (brings_ep) {
        request.mechanism = mechanism;
        return request;
    }
    request.order = mbr_cpu_order(cpu);
    request.transfer = mbr_cpu_transfer(cpu);
    request.instance = mbr_cpu_instance(cpu);
    return request;
}

void HostWorld::create_ep()
{
    if (!brings_ep) {
        auto cpu_options = sized<mbr_cpu_options>();
        EXPECT_EQ(MBR_OK, mbr_cpu_create(&cpu_options, &cpu, &error)) << error.text;
    }
    auto request = ep_request(brings_ep ? "device" : "cpu");
    EXPECT_EQ(MBR_OK, mbr_ep_create(manager, &request, &ep, &error)) << error.text;
    native = make_stream();
    EXPECT_EQ(MBR_OK, mbr_ep_attach_stream(manager, ep, native, &stream, &error)) << error.text;
}

mbr_native HostWorld::make_stream()
{
    mbr_native made = {};
    EXPECT_EQ(MBR_OK,
        brings_ep ? mbr_ep_create_stream(manager, ep, &made, &error)
                  : mbr_cpu_stream_create(cpu, &made, &error))
        << error.text;
    return made;
}

void HostWorld::end_stream(mbr_native made)
{
    EXPECT_EQ(brings_ep && lost ? MBR_DEVICE_LOST : MBR_OK,
        brings_ep ? mbr_ep_destroy_stream(manager, ep, made, &error)
                  : mbr_cpu_stream_destroy(cpu, made, &error))
        << error.text;
}

void HostWorld::submit(mbr_native on, void (*function)(void *argument), void *argument)
{
    auto own = sized<mbr_error>(); /* any thread submits */
    if (brings_ep)
        submit_to_device(on, function, argument);
    else
        EXPECT_EQ(MBR_OK, mbr_cpu_host_function(cpu, on, function, argument, &own)) << own.text;
}

void HostWorld::await(mbr_native on)
{
    std::promise<void> done;
    submit(
        on, [](void *argument) { static_cast<std::promise<void> *>(argument)->set_value(); },
        &done);
    done.get_future().wait();
}

void HostWorld::destroy_ep()
{
    EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(manager, stream, &error)) << error.text;
    if (brings_ep)
        end_stream(native);
    EXPECT_EQ(MBR_OK, mbr_ep_destroy(manager, ep, kNever, &error)) << error.text;
    if (brings_ep)
        return;
    if (lost)
        close_line();
    end_stream(native);
    EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, &error)) << error.text;
}

HostWorld::~HostWorld()
{
    EXPECT_EQ(MBR_OK, mbr_ep_drain(manager, ep, kNever, &error)) << error.text;
    EXPECT_TRUE(clean());
    if (binding.value != 0) {
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(manager, binding, &error)) << error.text;
    }
    destroy_ep();
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_holder(manager, holder, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_destroy_authority(manager, authority, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_close_mechanism(manager, mechanism, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_close_plugin(manager, plugin, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_manager_destroy(manager, &error)) << error.text;
}

void HostWorld::close_line(uint64_t ep_number)
{
    if (brings_ep) /* the loader's, which gives the instance up */
        return;
    auto request = sized<mbr_line_request>();
    request.line_id = ep_number << 40;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(
        MBR_OK, mbr_cpu_order(cpu)->line_close(mbr_cpu_instance(cpu), &request, &outcome, &error))
        << error.text;
}

mbr_bind_request HostWorld::bind_request() const
{
    auto request = sized<mbr_bind_request>();
    request.mechanism = mechanism;
    request.ep = ep;
    request.authority = authority;
    request.cache_keep_bytes = UINT64_MAX;
    return request;
}

mbr_holder_request HostWorld::holder_request(uint32_t role, const char *name) const
{
    auto request = sized<mbr_holder_request>();
    request.role = role;
    request.authority = authority;
    request.name = name;
    request.allowance_bytes = MBR_NO_ALLOWANCE;
    return request;
}

mbr_range_reserve_result HostWorld::reserve(uint64_t bytes, uint64_t unit)
{
    auto request = sized<mbr_range_reserve_request>();
    request.binding = binding;
    request.bytes = bytes;
    request.growth = {unit, unit, 0};
    auto result = sized<mbr_range_reserve_result>();
    EXPECT_EQ(MBR_OK, mbr_range_reserve(manager, &request, &result, &error)) << error.text;
    return result;
}

mbr_status HostWorld::grow(mbr_range_handle range, uint64_t offset, uint64_t bytes)
{
    mbr_piece piece = {range, offset, bytes};
    auto request = sized<mbr_range_grow_request>();
    request.holder = holder;
    if (brings_ep) /* which fills what the CPU does not reach */
        request.stream = stream;
    request.pieces = &piece;
    request.piece_count = 1;
    auto result = sized<mbr_range_grow_result>();
    return mbr_range_grow(manager, &request, &result, &error);
}

mbr_status HostWorld::release(mbr_range_handle range, bool now)
{
    auto request = sized<mbr_range_release_request>();
    request.flags = now ? MBR_FREE_NOW : 0;
    request.piece.range = range;
    request.streams = &stream;
    request.stream_count = now ? 0 : 1;
    return mbr_range_release(manager, &request, &error);
}

mbr_alloc_result HostWorld::alloc(uint64_t bytes, mbr_status *status)
{
    auto request = sized<mbr_alloc_request>();
    request.binding = binding;
    request.holder = holder;
    request.stream = stream;
    request.bytes = bytes;
    auto result = sized<mbr_alloc_result>();
    mbr_status answer = mbr_alloc(manager, &request, &result, &error);
    if (status != nullptr)
        *status = answer;
    else
        EXPECT_EQ(MBR_OK, answer) << error.text;
    return result;
}

mbr_status HostWorld::free_now(mbr_allocation_handle allocation)
{
    auto request = sized<mbr_free_request>();
    request.flags = MBR_FREE_NOW;
    request.allocation = allocation;
    return mbr_free(manager, &request, &error);
}

mbr_status HostWorld::free_queued(mbr_allocation_handle allocation)
{
    auto request = sized<mbr_free_request>();
    request.allocation = allocation;
    request.streams = &stream;
    request.stream_count = 1;
    return mbr_free(manager, &request, &error);
}

void HostWorld::copy(uint64_t to, uint64_t from, uint64_t bytes)
{
    auto own = sized<mbr_error>(); /* any thread copies */
    EXPECT_EQ(MBR_OK, mbr_ep_copy(manager, stream, to, from, bytes, &own)) << own.text;
    EXPECT_EQ(MBR_OK, mbr_ep_synchronize(manager, stream, kNever, &own)) << own.text;
}

void HostWorld::put(uint64_t address, const std::vector<uint8_t> &bytes)
{
    if (brings_ep)
        copy(address, reinterpret_cast<uint64_t>(bytes.data()), bytes.size());
    else
        std::memcpy(reinterpret_cast<void *>(address), bytes.data(), bytes.size());
}

std::vector<uint8_t> HostWorld::get(uint64_t address, uint64_t bytes)
{
    std::vector<uint8_t> seen(bytes);
    if (brings_ep)
        copy(reinterpret_cast<uint64_t>(seen.data()), address, bytes);
    else
        std::memcpy(seen.data(), reinterpret_cast<const void *>(address), bytes);
    return seen;
}

mbr_holder_figures HostWorld::paid(mbr_holder_handle by)
{
    auto figures = sized<mbr_holder_figures>();
    EXPECT_EQ(MBR_OK, mbr_manager_read_holder(manager, by, &figures, &error)) << error.text;
    return figures;
}

mbr_authority_figures HostWorld::books()
{
    auto figures = sized<mbr_authority_figures>();
    EXPECT_EQ(MBR_OK, mbr_manager_read_authority(manager, authority, &figures, &error));
    return figures;
}

mbr_mechanism_figures HostWorld::figures()
{
    auto figures = sized<mbr_mechanism_figures>();
    EXPECT_EQ(MBR_OK, mbr_manager_read_mechanism(manager, mechanism, &figures, &error));
    return figures;
}

::testing::AssertionResult HostWorld::clean()
{
    if (mbr_manager_audit(manager, &error) == MBR_OK)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << error.text;
}

} // namespace membrane
