-- For wrk: asks as fast as it can, comes again at once whatever it is told, and counts what it got.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init()
    served, sent_away, no_memory, others = 0, 0, 0, 0
    wrk.method = "POST"
    wrk.body = '{"prompt_tokens": 448, "output_tokens": 64}'
end

function response(status)
    if status == 200 then
        served = served + 1
    elseif status == 429 then
        sent_away = sent_away + 1
    elseif status == 503 then
        no_memory = no_memory + 1
    else
        others = others + 1
    end
end

function done(summary)
    local sums = { served = 0, sent_away = 0, no_memory = 0, others = 0 }
    for _, thread in ipairs(threads) do
        for name in pairs(sums) do
            sums[name] = sums[name] + thread:get(name)
        end
    end
    local errors = summary.errors
    print(string.format("counts %d %d %d %d %d", sums.served, sums.sent_away, sums.no_memory,
        sums.others, errors.connect + errors.read + errors.write))
end
