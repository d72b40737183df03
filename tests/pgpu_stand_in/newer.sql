-- STAND-IN for the extension pgpu, for tests: a version after 2.1, whose random_sampling and whose
-- notice are known from a benchmark that calls it. It says no time where it skips the index.

CREATE FUNCTION create_vector_index_on_gpu(
    table_name text,
    column_name text,
    lists int[] DEFAULT NULL,
    sampling_factor bigint DEFAULT 256,
    batch_size bigint DEFAULT 100000,
    kmeans_iterations bigint DEFAULT 10,
    kmeans_nredo bigint DEFAULT 1,
    distance_operator text DEFAULT 'ip',
    skip_index_build bool DEFAULT false,
    spherical_centroids bool DEFAULT false,
    residual_quantization bool DEFAULT false,
    random_sampling bool DEFAULT false
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    leaves int := lists[cardinality(lists)];
    samples bigint := leaves * sampling_factor;
BEGIN
    INSERT INTO pgpu.stand_in_calls VALUES ('newer', jsonb_build_object(
        'table_name', table_name, 'column_name', column_name, 'lists', lists,
        'sampling_factor', sampling_factor, 'batch_size', batch_size, 'kmeans_iterations', kmeans_iterations,
        'kmeans_nredo', kmeans_nredo, 'distance_operator', distance_operator,
        'skip_index_build', skip_index_build, 'spherical_centroids', spherical_centroids,
        'residual_quantization', residual_quantization,
        'random_sampling', random_sampling));
    IF cardinality(lists) NOT IN (1, 2) THEN
        RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = format(
            'invalid lists parameter: %s. Must be either [n] or [n, m]', lists);
    END IF;
    RAISE INFO 'running GPU accelerated index build for %.%', table_name, column_name;
    IF sampling_factor < 40 THEN
        RAISE WARNING 'sampling factor % is very low; consider increasing to at least 40 to achieve useful '
            'clustering results', sampling_factor;
    END IF;
    RAISE INFO E'clustering properties:\n\t uses_batching: %\n\t lists: %', samples > batch_size, lists;
    PERFORM pgpu.stand_in_check(table_name, leaves, samples, distance_operator);
    RAISE INFO 'processing batch (1/1)';
    RAISE INFO 'Clustering vectors on GPU';
    PERFORM pgpu.stand_in_centroids(
        table_name, column_name, CASE cardinality(lists) WHEN 2 THEN lists[1] ELSE 0 END, leaves,
        spherical_centroids, 'int');
    IF NOT skip_index_build THEN
        RAISE NOTICE 'Training complete (0.02s). Building VectorChord Index...';
        PERFORM pgpu.stand_in_index(table_name, distance_operator, residual_quantization, '2');
    END IF;
END
$$;
